"""What runs on the ranks; imports nothing here, so that the host side may import `ep_worker.contract` without torch."""
