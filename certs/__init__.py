"""Certificates: pure x509 and the decisions about their life."""
