"""Whole-job admission: the gated pods of a job are let through together, onto free units."""
