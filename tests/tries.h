// Tests of time.
#pragma once

namespace twofold {

// Whether holds() is true in one try of a few: for what comes too late where the machine is busy with something else.
template <class F>
bool InSomeTry(F&& holds) {
  for (int tries = 0; tries < 20; ++tries) {
    if (holds()) return true;
  }
  return false;
}

}  // namespace twofold
