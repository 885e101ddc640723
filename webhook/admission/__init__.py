"""AdmissionReview in and out, the Flask app, health."""
