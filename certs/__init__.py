"""The certificate program: it creates, renews and replaces the webhook's certificates."""
