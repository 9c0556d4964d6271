// Which node coordinates a cluster: a folder that all candidates share says it.
//
// A coordinator serves a term. Terms are numbered, and each has a file there, which one process
// alone can make. The coordinator renews its file now and then. A candidate that sees the newest
// file unchanged for a while, by its own clock, takes the next term.
//
// The coordinator before may be alive all the same. So a coordinator writes what it promises to a
// log of its term, then looks for a newer term, and only then carries the promises out; the next
// coordinator first makes its file, and then reads that log. Whichever comes first, nothing is
// carried out that the next coordinator has not read. For that, what one machine has written into
// the folder must be seen by the others at once.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace batchflow::service {

// A term, as its file says.
struct Term {
  std::uint64_t number = 0;  // 0: none
  std::string holder;        // the name of the node that coordinates
  std::string address;       // where agents reach it; empty: nowhere yet
  std::uint64_t renewed = 0;
  bool ended = false;  // its coordinator has ended as it should
};

// What tells terms of one folder from those of others.
struct TermName {
  std::string cluster;  // empty: no folder is shared, and there are no terms
  std::uint64_t number = 0;
  // Of the same cluster, and before `other`.
  bool is_before(const TermName& other) const {
    return !cluster.empty() && cluster == other.cluster && number < other.number;
  }
};

class TermFolder {
 public:
  // Makes the folder where it is not there. Throws ConfigError.
  explicit TermFolder(std::filesystem::path folder);

  const std::string& cluster() const { return cluster_; }
  // Throws ConfigError if the folder cannot be read.
  Term newest() const;
  // False: another process has taken it, or the file cannot be made (`problem`).
  bool take(std::uint64_t number, const std::string& holder, std::string& problem) const;
  bool write(const Term& term) const;
  // Whether there is a newer term. Also true if the folder cannot be read.
  bool is_over(std::uint64_t number) const;
  std::filesystem::path promises_of(std::uint64_t number) const;
  // The newest log of promises before that of this term; empty: there is none.
  std::filesystem::path promises_before(std::uint64_t number) const;
  // Removes the terms before the previous one, with what was promised in them.
  void remove_before(std::uint64_t number) const;

 private:
  std::filesystem::path file_of(std::uint64_t number) const;
  std::optional<Term> read(std::uint64_t number) const;

  const std::filesystem::path folder_;
  std::string cluster_;
};

// What a candidate sees of the present coordinator.
class TermWatch {
 public:
  using Clock = std::chrono::steady_clock;
  // It takes no term before `from`.
  TermWatch(const TermFolder& folder, std::string name, std::chrono::milliseconds silence,
            Clock::time_point from)
      : folder_(folder), name_(std::move(name)), silence_(silence), from_(from) {}
  struct Seen {
    Term now;
    bool taken = false;  // by this node, which is to coordinate
    std::string problem;
  };
  // Takes the next term if nothing renews the present one. Throws ConfigError.
  Seen look();

 private:
  const TermFolder& folder_;
  const std::string name_;
  const std::chrono::milliseconds silence_;
  const Clock::time_point from_;
  Term last_;
  Clock::time_point changed_ = Clock::now();
};

// The term of this process, which renews it.
class HeldTerm {
 public:
  HeldTerm(const TermFolder& folder, Term term, std::chrono::milliseconds silence);
  // Gives the term up, so that the next coordinator need not wait.
  ~HeldTerm();

  TermName name() const { return {folder_.cluster(), term_.number}; }
  const TermFolder& folder() const { return folder_; }
  // From here on agents find this node. `lost` is called once, on a thread of its own, when another
  // has taken a newer term, or when this one could not be renewed for too long.
  void serve(std::string address, std::function<void(const std::string& why)> lost);
  bool is_over() const { return folder_.is_over(term_.number); }

 private:
  void renew(const std::function<void(const std::string&)>& lost);

  const TermFolder& folder_;
  Term term_;
  const std::chrono::milliseconds silence_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;  // the thread is to end
  std::thread thread_;
};

}  // namespace batchflow::service
