"""As test_training_scripts.py: scripts over pictures, in several ranks too."""

import unittest

from changed_line import IN_ORDER, SERVED, ChangedLine
from support import needs


@needs("torchvision")
class Pictures(ChangedLine):
    def test_detection_in_two_ranks(self):
        self.check("detection.py", [SERVED, SERVED], ranks=2, drops=True)

    def test_segmentation_in_two_ranks(self):
        self.check("segmentation.py", [SERVED, SERVED], ranks=2, drops=True, knows=True)

    def test_repeated_augmentation_in_two_ranks(self):
        self.check("repeated_augmentation.py", [IN_ORDER], ranks=2)

    def test_a_gan(self):
        self.check("gan.py", [SERVED])

    def test_a_vae_on_mnist(self):
        self.check("vae.py", [SERVED, SERVED])

    def test_super_resolution(self):
        self.check("super_resolution.py", [SERVED, SERVED])


if __name__ == "__main__":
    unittest.main()
