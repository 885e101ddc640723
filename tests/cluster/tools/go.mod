module ultraserver-webhook.io/cluster-tools

go 1.26
