#!/usr/bin/env python3
"""experiments/studies/common/golden.py: which changes of an error it finds, and that it tells both numbers."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "experiments/studies/common"))
import golden  # noqa: E402


class Golden(unittest.TestCase):
    def moved(self, was, now, everything=False):
        return golden.differences(golden.rows_of(was), golden.rows_of(now), everything)

    def test_an_error_may_move_by_a_tenth_of_itself(self):
        self.assertEqual(self.moved([("a", 100, 110)], [("a", 100, 110.99)]), [])
        found = self.moved([("a", 100, 110)], [("a", 100, 111.1)])
        self.assertEqual(len(found), 1)
        self.assertIn("+10.0000%", found[0])
        self.assertIn("+11.1000%", found[0])
        self.assertEqual(len(self.moved([("a", 100, 110)], [("a", 100, 108.9)])), 1)  # better is a change, too
        self.assertEqual(len(self.moved([("a", 100, 110)], [("a", 100, 90)])), 1)

    def test_near_zero_there_is_a_floor(self):
        self.assertEqual(self.moved([("a", 100, 100)], [("a", 100, 100.009)]), [])
        self.assertEqual(len(self.moved([("a", 100, 100)], [("a", 100, 100.011)])), 1)

    def test_what_nobody_published_is_held_by_itself(self):
        self.assertEqual(self.moved([("a", None, 5)], [("a", None, 5.04)]), [])
        self.assertEqual(len(self.moved([("a", None, 5)], [("a", None, 5.06)])), 1)
        self.assertEqual(len(self.moved([("a", None, 5)], [("a", None, float("nan"))])), 1)

    def test_rows_do_not_come_and_go_unseen(self):
        self.assertEqual(len(self.moved([("a", 1, 1)], [("b", 1, 1)])), 1)
        self.assertEqual(len(self.moved([("a", 1, 1), ("b", 1, 1)], [("b", 1, 1)], everything=True)), 1)
        self.assertEqual(len(self.moved([("a", 1, 1)], [("a", 2, 2)])), 1)

    def test_what_is_written_is_read_again(self):
        with tempfile.TemporaryDirectory() as folder:
            folder, figures = pathlib.Path(folder), [("a", 3, 3.3), ("b", None, 7)]
            self.assertEqual(golden.hold(folder, figures, write=True), [])
            self.assertEqual(golden.hold(folder, figures, everything=True), [])
            self.assertEqual(len(golden.hold(folder, [], everything=True)), 1)


if __name__ == "__main__":
    unittest.main()
