"""As test_training_scripts.py: scripts over sound, text, tables and series, and those of frameworks."""

import unittest

from changed_line import LOCAL, SERVED, ChangedLine
from support import needs


@needs("torch")
class Rows(ChangedLine):
    def test_sound_of_different_lengths(self):
        self.check("audio.py", [SERVED, SERVED])

    def test_text_that_is_padded_in_each_batch(self):
        self.check("text_dynamic_padding.py", [SERVED, SERVED], within=0.2)

    def test_windows_that_are_drawn(self):
        self.check("memory_map_draws.py", [SERVED, SERVED], knows=True)

    def test_a_language_model_over_columns(self):
        self.check("word_language_model.py", [SERVED, SERVED], in_turn=True)

    def test_classes_of_unequal_size(self):
        self.check("imbalanced.py", [SERVED, SERVED], within=0.2, knows=True)

    def test_folds(self):
        self.check("kfold.py", [SERVED] * 6)

    def test_pairs_that_are_drawn(self):
        self.check("siamese.py", [SERVED, SERVED], within=0.2)

    def test_windows_of_a_series(self):
        self.check("time_series.py", [SERVED, SERVED], drops=True)

    def test_a_buffer_that_grows(self):
        said = self.check("replay.py", [LOCAL])
        self.assertIn("this one gives them in its own", said)

    def test_a_module_of_lightning(self):
        self.check("lightning_module.py", [SERVED, SERVED])

    def test_what_accelerate_prepares(self):
        self.check("accelerate_prepare.py", [SERVED, SERVED], drops=True, knows=True)


if __name__ == "__main__":
    unittest.main()
