// Helpers for tests of timing.
#pragma once

namespace twofold {

// Whether holds() is true in one of a few tries: for events that may come too late on a busy machine.
template <class F>
bool InSomeTry(F&& holds) {
  for (int tries = 0; tries < 20; ++tries) {
    if (holds()) return true;
  }
  return false;
}

}  // namespace twofold
