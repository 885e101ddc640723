"""Images without a registry: the product's, a job's and their base."""
