"""What several programs of this project use; nothing here knows any of them."""
