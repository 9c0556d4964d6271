"""Training scripts in the shape of those that people run, with one changed line: as many batches, of
the same sizes, with the same samples and labels, and evaluations in the same order."""

import unittest

from changed_line import LOCAL, SERVED, ChangedLine
from support import needs


class Scripts(ChangedLine):
    @needs("torchvision")
    def test_classification_of_pictures_in_folders(self):
        self.check("classification.py", [SERVED, SERVED])

    @needs("torchvision")
    def test_loader_arguments_in_a_dict(self):
        self.check("loader_arguments.py", [LOCAL, LOCAL])

    @needs("torch")
    def test_windows_of_a_memory_map(self):
        self.check("memory_map.py", [SERVED, SERVED], drops=True, knows=True)

    @needs("torchvision")
    def test_pairs_of_pictures_and_captions(self):
        self.check("image_and_text.py", [SERVED], drops=True)

    @needs("torch")
    def test_text_as_dicts(self):
        self.check("text_classification.py", [SERVED, SERVED])


if __name__ == "__main__":
    unittest.main()
