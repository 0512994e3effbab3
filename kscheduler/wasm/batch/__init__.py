"""The scheduler's side of the batch ABI, whose contract is plugins/abi/README.md.

A question is the message with which one extension point is called for one pod. It goes to a guest that keeps its own
copy of the node table (the nodes as columns), and the answer covers all nodes, i.e. all rows of that table:

    Plugin -- question --> Asker -- one instance of its pool --> BatchGuest -- bytes --> Instance (an engine's)
                             | before that: the changes of nodes that its copy of the table lacks
    TableFeed, Mirror <------+
"""
