// Sends the files of a folder that grows to a feed, each as one record, once.
//
// A file is sent when nothing has written to it for a while; a name that begins with a dot is left
// alone. Before files are sent, a list in the folder says which, in their order; when they are
// acknowledged, they move to the folder `.taken` there. So after a crash the list and the sequences
// of the feed say which of them were taken.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/client/feed_producer.h"

namespace batchflow::ctl {

// Makes the call again while the service is away or its log is nearly full, as producers wait, and
// says so once on standard error. Throws std::runtime_error for anything else that is wrong.
void patiently(const std::function<bf_status()>& call);

class FolderSender {
 public:
  // Throws ConfigError where the folder cannot be used.
  // `producer`: the feed's name for it, and the feed's folder, as the list has them.
  FolderSender(client::FeedProducer& feed, std::string producer, std::string folder,
               std::chrono::milliseconds settle);

  // Sends what is there and whole by now, and waits until it is acknowledged. Answers how many.
  // Throws std::runtime_error where the feed takes nothing.
  std::uint64_t send_some();
  // How many files were sent, and are acknowledged; also of a list that was there.
  std::uint64_t sent() const { return sent_; }
  // How many files could not be sent: too large, empty, or gone meanwhile.
  std::uint64_t left_out() const { return left_out_; }
  // Of the files that the last call of send_some() left where they are: how many will be whole
  // soon, and how many not for long, as their time is in the future.
  std::uint64_t soon_whole() const { return soon_whole_; }
  std::uint64_t of_the_future() const { return of_the_future_; }

 private:
  std::vector<std::string> whole_files();
  bool read(const std::string& name, std::uint64_t bytes_most);
  void write_list(const std::vector<std::string>& names, std::uint64_t first) const;
  void finish_list();
  void send(const std::vector<std::string>& names, std::uint64_t first);
  void move_to(std::string_view where, const std::string& name) const;

  client::FeedProducer& feed_;
  const std::string producer_;
  const std::string folder_;
  const std::chrono::milliseconds settle_;
  std::uint64_t sent_ = 0;
  std::uint64_t left_out_ = 0;
  std::uint64_t soon_whole_ = 0;
  std::uint64_t of_the_future_ = 0;
  std::vector<std::byte> bytes_;  // of a file
};

}  // namespace batchflow::ctl
