"""The host's side of the batch ABI, whose contract is plugins/abi/README.md.

A question about a pod goes to a guest that keeps its own copy of the node table; the answer covers all rows:

    Plugin -- question --> Guests -- one of --> BatchGuest -- bytes --> Instance (an engine's)
                                                   | before that: the changes that its copy of the table lacks
                            TableFeed, Mirror <----+
"""
