// Messages between threads of one process: both ends post their slices, then the bytes go straight
// from the sender's to the receiver's, in parts that either end copies.
//
// No byte is copied twice and none is buffered, so a send without its receive blocks as a
// rendezvous send would.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "libplan/base/ids.h"
#include "libplan/execute/host/slice_list.h"
#include "libplan/schedule/ir.h"

namespace plan {

enum class MessageEnd : std::uint8_t { Sender, Receiver };

// One end of a message as a rank posts it.
struct PostedEnd {
  RankId rank;
  RankId peer;
  std::int32_t window = 0;
  SliceList slices;  // of live storages, which stay live until finish() returns
};

// Thrown in a rank that has to stop because another one failed; never leaves the replay.
struct ReplayStopped {};

class MessageExchange {
 public:
  // Knows all messages of the schedule's programs. A message is copied in parts of part_bytes > 0.
  MessageExchange(const ir::Schedule& schedule, std::int64_t part_bytes, double timeout_seconds);

  // Posts one end. Error(Executor) if the other end is posted already and does not fit: other
  // ranks, window or byte count, or the same end twice.
  void post(std::int64_t message, MessageEnd end, PostedEnd posted);

  // Copies parts of this rank's messages until all those it posted are through. Throws
  // ReplayStopped after stop(). Error(Executor) that names what every blocked rank waits for, if no
  // rank makes progress for the timeout.
  void finish(RankId rank);

  // Tells the timeout that some rank did something that is not a message.
  void note_progress() { progress_.fetch_add(1, std::memory_order_relaxed); }

  // Makes every rank in finish(), now or later, stop.
  void stop();
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }

 private:
  // An end is written by the rank that claims it and only read once posted; its slices are dropped
  // when the bytes are through.
  struct Message {
    std::int64_t number = 0;
    PostedEnd sender;
    PostedEnd receiver;
    std::int64_t sender_bytes = 0;
    std::int64_t receiver_bytes = 0;
    std::atomic<unsigned> claimed{0};  // a bit per MessageEnd
    std::atomic<unsigned> posted{0};   // likewise
    std::atomic<std::int64_t> next_byte{0};
    std::atomic<std::int64_t> bytes_done{0};
  };
  // What a rank waits for. `ready` holds messages with both ends posted and parts left to take.
  struct Mailbox {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Message*> ready;
    std::int64_t outstanding = 0;  // posted, not through
  };

  Message& find(std::int64_t message);
  Mailbox& mailbox(RankId rank) { return mailboxes_[static_cast<std::size_t>(rank.value)]; }
  void make_ready(Message& message, MessageEnd last);
  void copy_parts(Message& message);
  void complete(Message& message);
  void complete_end(RankId rank);
  std::string blocked_report() const;

  static std::string describe(const Message& message, MessageEnd end);
  static void require_fitting(const Message& message);

  std::vector<Message> messages_;   // ascending by number
  std::vector<Mailbox> mailboxes_;  // one per rank
  std::int64_t part_bytes_;
  double timeout_seconds_;
  std::atomic<std::uint64_t> progress_{0};
  std::atomic<bool> stopped_{false};
};

}  // namespace plan
