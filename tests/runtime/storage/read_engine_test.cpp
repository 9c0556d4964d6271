// Both engines: every byte of small files and of one big one, from several threads at once.
#include "runtime/storage/read_engine.h"

#include <atomic>
#include <thread>

#include "tests/runtime/storage/harness.h"

namespace batchflow::test::read_engine_test {
namespace {

using test::Folder;
using test::Gathered;

constexpr std::uint64_t kFiles = 20'000;
constexpr std::uint64_t kBig = kFiles;
constexpr Bytes kBigBytes = (Bytes{48} << 20) + 1234;

Bytes bytes_of(std::uint64_t file) {
  return file == kBig ? kBigBytes : hash(file, 1) % 6000;
}

struct Files {
  Files() {
    for (std::uint64_t file = 0; file < kFiles; ++file) {
      names.push_back(std::to_string(file / 1000) + "/" + std::to_string(file));
      if (file % 1000 == 0) {
        std::filesystem::create_directory(folder.path() / std::to_string(file / 1000));
      }
      folder.write(names.back(), file, bytes_of(file));
    }
    names.push_back("big");
    folder.write("big", kBig, kBigBytes);
    folder.settle();
  }
  Folder folder;
  std::vector<std::string> names;
};
const Files& files() {
  static const Files all;
  return all;
}

storage::ReadPiece piece_of(std::uint64_t file, std::uint64_t offset, Bytes bytes,
                            std::uint64_t tag) {
  storage::ReadPiece piece{.root = files().folder.root(), .path = files().names[file].c_str()};
  piece.file = file;
  piece.whole_file = file != kBig;
  piece.offset = offset;
  piece.bytes = bytes;
  piece.tag = tag;
  return piece;
}

// Reads all pieces, with as many staged as there is room for, and checks each when it is there.
class Run {
 public:
  Run(const storage::ReadEngineOptions& options, std::vector<storage::ReadPiece> pieces)
      : pieces_(std::move(pieces)),
        engine_(std::make_unique<storage::ReadEngine>(options, [this](auto results) {
          for (const storage::ReadResult& result : results) take(result);
        })) {}

  // The pieces of `from`, `from + step`, ...: by as many threads as steps.
  void submit(std::size_t from, std::size_t step) {
    std::vector<storage::ReadPiece> some;
    for (std::size_t i = from; i < pieces_.size(); i += step) {
      storage::ReadPiece& piece = pieces_[i];
      while ((piece.to = engine_->stage(storage::room_for(piece.offset, piece.bytes))) == nullptr) {
        engine_->submit(some);
        some.clear();
        std::this_thread::yield();
      }
      some.push_back(piece);
      if (some.size() == 16) {
        engine_->submit(some);
        some.clear();
      }
    }
    engine_->submit(some);
  }
  void wait() {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, std::chrono::seconds(300),
                              [&] { return done_ == pieces_.size(); }));
  }
  std::size_t wrong() const { return wrong_; }
  storage::ReadEngine& engine() { return *engine_; }

 private:
  void take(const storage::ReadResult& result) {
    const storage::ReadPiece& piece = pieces_[result.tag];
    const Bytes size = bytes_of(piece.file);
    const Bytes want = piece.offset >= size ? 0 : std::min<Bytes>(piece.bytes, size - piece.offset);
    if (result.error != 0 || result.bytes != want ||
        !test::holds(piece.file, piece.offset, want, piece.to + storage::lead(piece.offset))) {
      ++wrong_;
    }
    engine_->unstage(piece.to);
    const std::lock_guard lock(mutex_);
    ++done_;
    changed_.notify_all();
  }

  std::vector<storage::ReadPiece> pieces_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t done_ = 0;
  std::atomic<std::size_t> wrong_{0};
  std::unique_ptr<storage::ReadEngine> engine_;
};

std::vector<storage::ReadPiece> all_small_files() {
  std::vector<storage::ReadPiece> pieces;
  for (std::uint64_t file = 0; file < kFiles; ++file) {
    pieces.push_back(piece_of(file, 0, bytes_of(file), file));
  }
  return pieces;
}

// Beyond the end, too.
std::vector<storage::ReadPiece> random_pieces_of_the_big_one(int count) {
  std::vector<storage::ReadPiece> pieces;
  Random random(3);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t offset = random.below(kBigBytes + 10'000);
    const Bytes bytes = random.below(8) == 0 ? random.below(1'000'000) : random.below(9'000);
    pieces.push_back(piece_of(kBig, offset, bytes, static_cast<std::uint64_t>(i)));
  }
  return pieces;
}

}  // namespace

TEST_CASE("20,000 small files, each byte, asked for by four threads") {
  for (const std::string& engine : test::engines()) {
    CAPTURE(engine);
    Run run(test::small(engine), all_small_files());
    std::vector<std::thread> threads;
    for (std::size_t id = 0; id < 4; ++id) threads.emplace_back([&, id] { run.submit(id, 4); });
    for (std::thread& thread : threads) thread.join();
    run.wait();
    CHECK(run.wrong() == 0);
    CHECK(run.engine().stage(run.engine().staging_bytes()) != nullptr);
  }
}

TEST_CASE("one big file, any offset and any size") {
  for (const std::string& engine : test::engines()) {
    for (const bool direct : {true, false}) {
      CAPTURE(engine);
      CAPTURE(direct);
      storage::ReadEngineOptions options = test::small(engine);
      options.direct = direct;
      Run run(options, random_pieces_of_the_big_one(2000));
      run.submit(0, 1);
      run.wait();
      CHECK(run.wrong() == 0);
    }
  }
}

TEST_CASE("small and large, at any depth, through the page cache too") {
  for (const std::string& engine : test::engines()) {
    for (const unsigned depth : {1U, 5U, 256U}) {
      CAPTURE(engine);
      CAPTURE(depth);
      std::vector<storage::ReadPiece> pieces = random_pieces_of_the_big_one(200);
      for (std::uint64_t file = 0; file < 200; ++file) {
        pieces.push_back(piece_of(file, file, bytes_of(file), pieces.size()));
      }
      storage::ReadEngineOptions options = test::small(engine);
      options.depth = options.threads = depth;
      options.direct = depth != 5;
      Run run(options, pieces);
      run.submit(0, 1);
      run.wait();
      CHECK(run.wrong() == 0);
    }
  }
}

TEST_CASE("more large files than stay open, again and again") {
  for (const std::string& engine : test::engines()) {
    CAPTURE(engine);
    std::vector<storage::ReadPiece> pieces;
    Random random(9);
    for (std::uint64_t i = 0; i < 3000; ++i) {
      const std::uint64_t file = random.below(300);
      pieces.push_back(piece_of(file, random.below(3000), 1 + random.below(3000), i));
      pieces.back().whole_file = false;
    }
    Run run(test::small(engine), pieces);
    run.submit(0, 1);
    run.wait();
    CHECK(run.wrong() == 0);
  }
}

TEST_CASE("wrong options are refused") {
  auto problem = [](storage::ReadEngineOptions options) -> std::string {
    try {
      const storage::ReadEngine made(options, [](auto) {});
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  storage::ReadEngineOptions options = test::small("aio");
  CHECK(problem(options) == "no read engine `aio`; write auto, io_uring or pread");
  options = test::small("pread");
  options.depth = 0;
  CHECK(problem(options) == "0 reads at once; write 1 to 4096");
  options = test::small("pread");
  options.threads = 5000;
  CHECK(problem(options) == "5000 reading threads; write 1 to 1024");
}

}  // namespace batchflow::test::read_engine_test
