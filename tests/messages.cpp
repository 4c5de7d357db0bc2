#include "tests/messages.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <utility>

namespace reprolab {
namespace {

/// Compares the messages of the running test with its entry, in their order. UPDATE_GOLDEN=1 writes
/// the entry, under a lock, because tests run in parallel.
class GoldenMessages : public testing::EmptyTestEventListener {
 public:
  static GoldenMessages& instance() { return *registered_; }

  void expect(const std::string& text) {
    const std::size_t index = seen_.size();
    seen_.push_back(without_folders(text));
    if (updates_) return;
    ASSERT_LT(index, golden_.size()) << text << "\n" << if_meant;
    EXPECT_EQ(seen_.back().get<std::string>(), golden_[index].get<std::string>()) << if_meant;
  }

 private:
  using Json = nlohmann::json;
  static constexpr const char* if_meant = "if meant, UPDATE_GOLDEN=1";

  static GoldenMessages* registered() {
    auto* messages = new GoldenMessages;  // which googletest deletes
    testing::UnitTest::GetInstance()->listeners().Append(messages);
    return messages;
  }

  void OnTestStart(const testing::TestInfo& test) override {
    entry_ =
        path_in_project(test.file()).string() + "::" + test.test_suite_name() + "." + test.name();
    seen_ = Json::array();
    golden_ = updates_ ? Json::array() : texts().value(entry_, Json::array());
  }

  void OnTestEnd(const testing::TestInfo& test) override {
    if (test.result()->Skipped()) return;
    if (updates_) return write();
    EXPECT_EQ(seen_.size(), golden_.size()) << if_meant;
  }

  void write() const {
    const int lock = open(path().c_str(), O_RDONLY | O_CLOEXEC);
    flock(lock, LOCK_EX);
    Json all = texts();
    all[entry_] = seen_;
    if (seen_.empty()) all.erase(entry_);
    std::ofstream(path()) << all.dump(1) << '\n';
    close(lock);
  }

  static std::string without_folders(std::string text) {
    const auto own = std::filesystem::temp_directory_path() / "reprolab_\\w{6}";
    for (const auto& [folder, name] :
         {std::pair{own, "TMP"}, {root() / "build/[a-z-]+", "BUILD"}, {root(), "ROOT"}}) {
      text = std::regex_replace(text, std::regex(folder.string()), name);
    }
    return text;
  }

  static std::filesystem::path root() { return PROJECT_ROOT; }

  /// ccache may compile a file by its path from the folder of its object, which begins with ../
  static std::filesystem::path path_in_project(const std::filesystem::path& file) {
    if (file.is_absolute()) return file.lexically_relative(root());
    std::filesystem::path own;
    for (const auto& part : file) {
      if (part != "..") own /= part;
    }
    return own;
  }
  static std::filesystem::path path() { return root() / "tests/messages.json"; }
  static Json texts() { return Json::parse(std::ifstream(path())); }

  static inline GoldenMessages* const registered_ = registered();
  const bool updates_ = std::getenv("UPDATE_GOLDEN") != nullptr;
  std::string entry_;
  Json seen_, golden_;
};

}  // namespace

void expect_message(const std::string& text) { GoldenMessages::instance().expect(text); }

void expect_message(std::string text, const std::string& part, const std::string& name) {
  const std::size_t at = text.find(part);
  ASSERT_NE(at, text.npos) << part << " is not in " << text;
  expect_message(text.replace(at, part.size(), name));
}

}  // namespace reprolab
