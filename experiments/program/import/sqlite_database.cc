#include "experiments/program/import/sqlite_database.h"

#include <sqlite3.h>

#include <algorithm>

#include "absl/strings/str_join.h"
#include "core/base/printable.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

[[noreturn]] void FailWith(sqlite3* database) {
  const int code = sqlite3_errcode(database);
  if (code == SQLITE_NOTADB) throw WrongDatabase{"is not a SQLite database"};
  throw WrongDatabase{StrCat("SQLite cannot read it: ", Printable(sqlite3_errmsg(database)))};
}

// The database's own views and triggers get no rights, and no damaged page is believed.
void Harden(sqlite3* database) {
  sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_exec(database, "PRAGMA cell_size_check = ON", nullptr, nullptr, nullptr);
}

std::string Quoted(std::string_view name) {
  std::string quoted = "\"";
  for (const char c : name) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

void SqliteDatabase::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }
void TableRows::Finish::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

SqliteDatabase SqliteDatabase::OfFile(const std::string& path) {
  sqlite3* opened = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &opened, SQLITE_OPEN_READONLY, nullptr);
  SqliteDatabase database(opened);
  if (code != SQLITE_OK) FailWith(opened);
  Harden(opened);
  return database;
}

SqliteDatabase SqliteDatabase::OfBytes(std::string_view bytes) {
  sqlite3* opened = nullptr;
  const int code = sqlite3_open_v2(":memory:", &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY, nullptr);
  SqliteDatabase database(opened);
  if (code != SQLITE_OK) FailWith(opened);
  Harden(opened);
  auto* data = reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data()));  // read-only: SQLite leaves it
  const auto size = static_cast<sqlite3_int64>(bytes.size());
  if (sqlite3_deserialize(opened, "main", data, size, size, SQLITE_DESERIALIZE_READONLY) != SQLITE_OK) FailWith(opened);
  return database;
}

std::vector<std::string> SqliteDatabase::ColumnsOf(const std::string& table) const {
  std::vector<std::string> columns;
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(get(), StrCat("PRAGMA table_info(", Quoted(table), ")").c_str(), -1, &statement, nullptr) !=
      SQLITE_OK)
    FailWith(get());
  int code = 0;
  while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
    const auto* name = reinterpret_cast<const char*>(sqlite3_column_text(statement, 1));
    columns.emplace_back(name == nullptr ? "" : name);
  }
  sqlite3_finalize(statement);
  if (code != SQLITE_DONE) FailWith(get());
  return columns;
}

TableRows::TableRows(const SqliteDatabase& database, std::string table, std::vector<WantedColumn> columns)
    : database_(database), table_(std::move(table)), columns_(std::move(columns)) {
  const std::vector<std::string> there = database.ColumnsOf(table_);
  if (there.empty()) throw WrongDatabase{StrCat("has no table ", table_)};
  std::vector<std::string> selected;
  for (const WantedColumn& wanted : columns_) {
    const bool has = std::find(there.begin(), there.end(), wanted.name) != there.end();
    if (!has && !wanted.optional)
      throw WrongDatabase{
          StrCat(table_, ": has no column ", wanted.name, "; it has ", Printable(absl::StrJoin(there, ", ")))};
    selected.push_back(has ? Quoted(wanted.name) : "NULL");
  }
  sqlite3_stmt* statement = nullptr;
  const std::string query = StrCat("SELECT ", absl::StrJoin(selected, ", "), " FROM ", Quoted(table_));
  if (sqlite3_prepare_v2(database.get(), query.c_str(), -1, &statement, nullptr) != SQLITE_OK) FailWith(database.get());
  statement_.reset(statement);
}

bool TableRows::Next() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_DONE) return false;
  if (code != SQLITE_ROW) FailWith(database_.get());
  ++row_;
  return true;
}

void TableRows::Fail(int column, const std::string& what) const {
  throw WrongDatabase{StrCat(table_, " row ", row_, ": ", columns_[static_cast<size_t>(column)].name, ": ", what)};
}

std::optional<int64_t> TableRows::MaybeWhole(int column) const {
  const int type = sqlite3_column_type(statement_.get(), column);
  if (type == SQLITE_NULL) return std::nullopt;
  if (type == SQLITE_INTEGER) return sqlite3_column_int64(statement_.get(), column);
  const std::string shown = type == SQLITE_BLOB ? "a blob" : Text(column).value_or("").substr(0, 40);
  Fail(column, StrCat(shown, " is not a whole number"));
}

int64_t TableRows::Whole(int column) const {
  const std::optional<int64_t> value = MaybeWhole(column);
  if (!value) Fail(column, "is missing; expected a whole number");
  return *value;
}

std::optional<std::string> TableRows::Text(int column) const {
  if (sqlite3_column_type(statement_.get(), column) == SQLITE_NULL) return std::nullopt;
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  if (text == nullptr) return std::nullopt;  // no memory
  return Printable(std::string_view(text, static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column))));
}

}  // namespace twofold
