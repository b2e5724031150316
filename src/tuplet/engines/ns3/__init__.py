"""NS3: marginalise, merge free variables into hypernodes, search under a budget. Start reading at `algorithm`."""
