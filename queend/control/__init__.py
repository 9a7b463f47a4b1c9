"""The control plane: an ASGI application behind the core's bridge."""
