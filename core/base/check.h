// Checks of invariants. A failed check prints the expression and both operands, then aborts.
//
// For errors in user input use absl::Status. For failures while ranks run use core/base/errors.h.
#pragma once

#include <sstream>
#include <string>

namespace twofold::internal {

[[noreturn]] void CheckFailed(const char* file, int line, const std::string& message);

template <class A, class B>
std::string Operands(const char* text, const A& a, const B& b) {
  std::ostringstream out;
  out << text << " (" << a << " against " << b << ")";
  return out.str();
}

}  // namespace twofold::internal

// TWOFOLD_CHECK(cond, "why it must hold")
#define TWOFOLD_CHECK(cond, why)                                                                          \
  do {                                                                                                    \
    if (!(cond)) [[unlikely]]                                                                             \
      ::twofold::internal::CheckFailed(__FILE__, __LINE__, std::string(#cond) + ": " + std::string(why)); \
  } while (false)

#define TWOFOLD_CHECK_OP(op, a, b)                                                                              \
  do {                                                                                                          \
    const auto& twofold_a = (a);                                                                                \
    const auto& twofold_b = (b);                                                                                \
    if (!(twofold_a op twofold_b)) [[unlikely]]                                                                 \
      ::twofold::internal::CheckFailed(__FILE__, __LINE__,                                                      \
                                       ::twofold::internal::Operands(#a " " #op " " #b, twofold_a, twofold_b)); \
  } while (false)
#define TWOFOLD_CHECK_EQ(a, b) TWOFOLD_CHECK_OP(==, a, b)
#define TWOFOLD_CHECK_LE(a, b) TWOFOLD_CHECK_OP(<=, a, b)
#define TWOFOLD_CHECK_LT(a, b) TWOFOLD_CHECK_OP(<, a, b)
#define TWOFOLD_CHECK_GE(a, b) TWOFOLD_CHECK_OP(>=, a, b)
#define TWOFOLD_CHECK_GT(a, b) TWOFOLD_CHECK_OP(>, a, b)
