"""Sessions have their imports done."""

from tests.warm.servers import servers_with

warm_servers = servers_with("torch")
