// Databases as `nsys export --type=sqlite` writes them, made of SQL: with the tables and columns of NVIDIA's "SQLite
// Export Schema Reference" that matter here, and some that do not.
#pragma once

#include <sqlite3.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "core/base/strings.h"

namespace twofold::test {

inline constexpr std::string_view kNsightTables = R"sql(
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT);
CREATE TABLE TARGET_INFO_GPU (vmId INTEGER, id INTEGER NOT NULL, name TEXT, busLocation TEXT, smCount INTEGER);
CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER, uuid TEXT);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
  globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, gridX INTEGER, gridY INTEGER, gridZ INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, srcKind INTEGER, dstKind INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER,
  color INTEGER, text TEXT, globalTid INTEGER, domainId INTEGER, textId INTEGER, jsonText TEXT, jsonTextId INTEGER);
)sql";

// The job of tests/data/traces/ddp-rank{0,1}.json as one profile of both processes of a machine: the same kernels at
// the same times, so the same figures follow. Times are nanoseconds since the session began.
inline std::string NsightJob() {
  constexpr int kStrings = 8;
  const char* strings[kStrings] = {
      "nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_TNT",
      "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>()",
      "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
      "void at::native::multi_tensor_apply_kernel<at::native::FusedAdamMathFunctor>()",
      "cudaLaunchKernel",
      "iteration 6",
      "kernel",
      "{\"NCCL communicator ID\": 77, \"Message size [bytes]\": 2000}"};
  std::string sql(kNsightTables);
  for (int i = 0; i < kStrings; ++i)
    StrAppend(&sql, "INSERT INTO StringIds VALUES (", i + 1, ", '", strings[i], "');\n");
  StrAppend(&sql, "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000, '', '');\n");
  for (int r = 0; r < 2; ++r) {
    const int64_t pid = 4100 + r, process = (int64_t{1} << 48) | (pid << 24), thread = process | pid;
    // Each process sees its GPU as device r; GPUs have other numbers.
    StrAppend(&sql, "INSERT INTO TARGET_INFO_GPU VALUES (0, ", 4 + r, ", 'NVIDIA H100 80GB HBM3', '', 132);\n",
              "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (", 4 + r, ", ", r, ", ", pid, ", '');\n");
    const auto work = [&](int64_t correlation, int64_t stream, int name, int64_t start, int64_t took) {
      StrAppend(&sql, "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (", start * 1000, ", ", (start + took) * 1000,
                ", ", r, ", 1, ", stream, ", ", correlation, ", ", process, ", ", name, ", 7, 64, 1, 1);\n");
    };
    const auto launch = [&](int64_t correlation, int64_t start) {
      StrAppend(&sql, "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (", start * 1000, ", ", (start + 4) * 1000,
                ", 0, ", thread, ", ", correlation, ", 5, 0, NULL);\n");
    };
    const auto range = [&](int64_t start, int64_t end, const std::string& text, int64_t text_id, int64_t json_id) {
      const auto id = [](int64_t of) { return of > 0 ? std::to_string(of) : std::string("NULL"); };
      StrAppend(&sql, "INSERT INTO NVTX_EVENTS VALUES (", start * 1000, ", ", end * 1000, ", 59, 0, 0, ",
                text.empty() ? "NULL" : StrCat("'", text, "'"), ", ", thread, ", 0, ", id(text_id), ", NULL, ",
                id(json_id), ");\n");
    };
    range(1000, 2000, "iteration 5", 0, 0);
    range(2000, 3000, "", 6, 0);  // its text is among the strings
    StrAppend(&sql, "INSERT INTO NVTX_EVENTS VALUES (1, NULL, 75, 0, 0, 'NCCL', ", thread, ", 1, NULL, NULL, NULL);\n");
    for (int s = 0; s < 2; ++s) {
      const int64_t at = 1000 * (s + 1), first = 10 * s + 1;
      for (int64_t k = 0; k < 4; ++k) launch(first + k, at + 10 * (k + 1));
      range(at + 29, at + 36, "ncclAllReduce", 0, 8);
      work(first, 7, 1, at + 100, 300);
      work(first + 1, 7, 2, at + 400, 100);
      const int64_t comes = at + (r == 0 ? 450 : s == 0 ? 480 : 600), ends = at + (s == 0 ? 700 : 760);  // rank 1 late
      work(first + 2, 20, 3, comes, ends - comes);
      work(first + 3, 7, 4, ends, 200);
    }
    launch(5, 1050);
    StrAppend(&sql, "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1920000, 1960000, ", r, ", 1, 7, 5, ", process,
              ", 4096, 1, 1, 2);\n");
  }
  return sql;
}

// The bytes of the database that the statements make. Statements that fail are left out if `lenient`.
inline std::string DatabaseOf(const std::string& sql, bool lenient = false) {
  sqlite3* database = nullptr;
  TWOFOLD_CHECK_EQ(sqlite3_open(":memory:", &database), SQLITE_OK);
  sqlite3_exec(database, "PRAGMA page_size = 512; BEGIN", nullptr, nullptr, nullptr);
  for (size_t at = 0; at < sql.size();) {
    const size_t end = std::min(sql.find(";\n", at), sql.size());
    const int code = sqlite3_exec(database, sql.substr(at, end - at).c_str(), nullptr, nullptr, nullptr);
    TWOFOLD_CHECK(code == SQLITE_OK || lenient, StrCat(sqlite3_errmsg(database), ": ", sql.substr(at, end - at)));
    at = end + 2;
  }
  sqlite3_exec(database, "COMMIT", nullptr, nullptr, nullptr);
  sqlite3_int64 size = 0;
  unsigned char* bytes = sqlite3_serialize(database, "main", &size, 0);
  std::string out(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
  sqlite3_free(bytes);
  sqlite3_close(database);
  return out;
}

}  // namespace twofold::test
