"""``python -m webhook`` is ``ultraserver-webhook``."""

from webhook.cli import main

if __name__ == "__main__":
    main()
