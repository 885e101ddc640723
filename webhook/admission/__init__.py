"""AdmissionReview in and out, the views, health."""
