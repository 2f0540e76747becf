"""A Linux node for tests: the host's own root, read-only, booted in QEMU with a kernel and a command line of choice.

Nothing is imported here: programs that run in a guest are modules of this package too (drivers/), and each import
costs an emulated CPU a tenth of a second.
"""
