// A SQLite database that somebody else wrote, read table by table.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace twofold {

// What is wrong with a database, without the file's name: "StringIds: has no column value".
struct WrongDatabase {
  std::string what;
};

class SqliteDatabase {
 public:
  // These throw WrongDatabase. A file is opened to read only; bytes are a whole database and must outlive it.
  static SqliteDatabase OfFile(const std::string& path);
  static SqliteDatabase OfBytes(std::string_view bytes);

  // The columns of a table or a view; empty if there is none.
  std::vector<std::string> ColumnsOf(const std::string& table) const;

  sqlite3* get() const { return database_.get(); }

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  explicit SqliteDatabase(sqlite3* database) : database_(database) {}

  std::unique_ptr<sqlite3, Close> database_;
};

// One column that a reader wants. Of an optional one that a table lacks, every row has nothing.
struct WantedColumn {
  const char* name;
  bool optional = false;
};

// The rows of a table, with the wanted columns by their place in the list.
//
//     for (TableRows rows(database, "StringIds", {{"id"}, {"value"}}); rows.Next();)
//       strings[rows.Whole(0)] = rows.Text(1).value_or("");
//
// Every error is a WrongDatabase that names the table, the row (from 1) and the column.
class TableRows {
 public:
  TableRows(const SqliteDatabase& database, std::string table, std::vector<WantedColumn> columns);
  bool Next();
  std::optional<int64_t> MaybeWhole(int column) const;  // nothing: NULL
  int64_t Whole(int column) const;                      // an error if it is NULL
  std::optional<std::string> Text(int column) const;    // printable; nothing: NULL
  [[noreturn]] void Fail(int column, const std::string& what) const;

 private:
  struct Finish {
    void operator()(sqlite3_stmt* statement) const;
  };
  const SqliteDatabase& database_;
  const std::string table_;
  const std::vector<WantedColumn> columns_;
  std::unique_ptr<sqlite3_stmt, Finish> statement_;
  int64_t row_ = 0;
};

}  // namespace twofold
