"""What `make up` and `make down` run: a cluster, the operator's three replicas on it, and the examples."""
