"""What takes hours, a busy machine or chance: ``make test-soak``. Its records are what a release asks for."""
