"""Makes objects whose finalisers make two more."""
# shape: function
# masks on: masks_death
# slow


class Hydra:
    def __del__(self):
        Hydra()
        Hydra()


def ENTRY(*args, **kwargs):
    while True:
        Hydra()
