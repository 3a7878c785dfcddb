// Annotations for the thread sanitizer. They order the threads of a block at their barriers and exchanges and nowhere
// else, so that it detects races between these threads. Accesses of the emulation itself are hidden from it, whichever
// thread makes them.
#pragma once

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>

extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}

namespace twofold::emulated {

inline void ComesBefore(void* what) { __tsan_release(what); }
inline void ComesAfter(void* what) { __tsan_acquire(what); }
inline void BeginUnseen() {
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
inline void EndUnseen() {
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}

}  // namespace twofold::emulated
#else
namespace twofold::emulated {

inline void ComesBefore(void*) {}
inline void ComesAfter(void*) {}
inline void BeginUnseen() {}
inline void EndUnseen() {}

}  // namespace twofold::emulated
#endif

namespace twofold::emulated {

class Unseen {
 public:
  Unseen() { BeginUnseen(); }
  ~Unseen() { EndUnseen(); }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};

}  // namespace twofold::emulated
