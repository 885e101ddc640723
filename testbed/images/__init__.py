"""Images without a registry: the product's, a job's and what they stand on."""
