"""Whole-job admission: admits the gated pods of a job together, onto free units."""
