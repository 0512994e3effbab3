"""In-tree plugins, one module each, named as kube-scheduler names them; `registry` lists them. None knows another."""
