#include "libplan/execute/host/rendezvous.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "libplan/base/error.h"
#include "libplan/execute/host/slice_copy.h"

namespace plan {
namespace {

constexpr unsigned kBothEnds = 3;
constexpr int kMostReported = 64;  // lines of a deadlock report

unsigned bit_of(MessageEnd end) { return 1u << static_cast<unsigned>(end); }

std::vector<std::int64_t> message_numbers(const ir::Schedule& schedule) {
  std::vector<std::int64_t> numbers;
  for (const ir::Program& program : schedule.programs) {
    for (const ir::Send& send : program.sends) numbers.push_back(send.message);
    for (const ir::Receive& receive : program.receives) numbers.push_back(receive.message);
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

}  // namespace

MessageExchange::MessageExchange(const ir::Schedule& schedule, std::int64_t part_bytes,
                                 double timeout_seconds)
    : mailboxes_(schedule.ranks.size()),
      part_bytes_(part_bytes),
      timeout_seconds_(timeout_seconds) {
  PLAN_CHECK(part_bytes > 0);
  const std::vector<std::int64_t> numbers = message_numbers(schedule);
  messages_ = std::vector<Message>(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) messages_[i].number = numbers[i];
}

MessageExchange::Message& MessageExchange::find(std::int64_t number) {
  const auto found = std::lower_bound(
      messages_.begin(), messages_.end(), number,
      [](const Message& message, std::int64_t wanted) { return message.number < wanted; });
  PLAN_CHECK(found != messages_.end() && found->number == number);
  return *found;
}

// "rank 2, window 5, send to rank 3 of 4096 bytes, message 17"
std::string MessageExchange::describe(const Message& message, MessageEnd end) {
  const bool is_sender = end == MessageEnd::Sender;
  const PostedEnd& posted = is_sender ? message.sender : message.receiver;
  const std::int64_t bytes = is_sender ? message.sender_bytes : message.receiver_bytes;
  return "rank " + std::to_string(posted.rank.value) + ", window " + std::to_string(posted.window) +
         (is_sender ? ", send to rank " : ", receive from rank ") +
         std::to_string(posted.peer.value) + " of " + std::to_string(bytes) + " bytes, message " +
         std::to_string(message.number);
}

void MessageExchange::require_fitting(const Message& message) {
  const PostedEnd& sender = message.sender;
  const PostedEnd& receiver = message.receiver;
  if (sender.rank == receiver.peer && sender.peer == receiver.rank &&
      sender.window == receiver.window && message.sender_bytes == message.receiver_bytes) {
    return;
  }
  throw Error(ErrorCode::Executor, "expected two fitting ends of one message, found " +
                                       describe(message, MessageEnd::Sender) + "; and " +
                                       describe(message, MessageEnd::Receiver));
}

void MessageExchange::post(std::int64_t number, MessageEnd end, PostedEnd posted) {
  Message& message = find(number);
  if ((message.claimed.fetch_or(bit_of(end)) & bit_of(end)) != 0) {
    throw Error(ErrorCode::Executor, "expected each end of message " + std::to_string(number) +
                                         " once, found it again on rank " +
                                         std::to_string(posted.rank.value));
  }
  {
    Mailbox& box = mailbox(posted.rank);
    const std::lock_guard lock(box.mutex);
    ++box.outstanding;
  }
  const bool is_sender = end == MessageEnd::Sender;
  (is_sender ? message.sender_bytes : message.receiver_bytes) = posted.slices.num_bytes();
  (is_sender ? message.sender : message.receiver) = std::move(posted);
  const unsigned before = message.posted.fetch_or(bit_of(end), std::memory_order_acq_rel);
  if ((before | bit_of(end)) != kBothEnds) return;
  require_fitting(message);
  if (message.sender_bytes == 0) {
    complete(message);
  } else {
    make_ready(message, end);
  }
}

// The end that came last copies; a message of several parts also calls the other end to help.
void MessageExchange::make_ready(Message& message, MessageEnd last) {
  const bool several_parts = message.sender_bytes > part_bytes_;
  for (const MessageEnd end : {MessageEnd::Sender, MessageEnd::Receiver}) {
    if (end != last && !several_parts) continue;
    Mailbox& box = mailbox(end == MessageEnd::Sender ? message.sender.rank : message.receiver.rank);
    const std::lock_guard lock(box.mutex);
    box.ready.push_back(&message);
    box.changed.notify_one();
  }
}

// Takes parts until none is left. May be called on a message that is already through.
void MessageExchange::copy_parts(Message& message) {
  const std::int64_t bytes = message.sender_bytes;
  while (!stopped()) {
    const std::int64_t begin = message.next_byte.fetch_add(part_bytes_, std::memory_order_relaxed);
    if (begin >= bytes) return;
    const Interval part{begin, std::min(bytes, begin + part_bytes_)};
    copy_slices(message.sender.slices, message.receiver.slices, part);
    note_progress();
    const std::int64_t before =
        message.bytes_done.fetch_add(part.length(), std::memory_order_acq_rel);
    if (before + part.length() == bytes) complete(message);
  }
}

void MessageExchange::complete(Message& message) {
  message.sender.slices.clear();
  message.receiver.slices.clear();
  for (const RankId rank : {message.sender.rank, message.receiver.rank}) {
    Mailbox& box = mailbox(rank);
    const std::lock_guard lock(box.mutex);
    if (--box.outstanding == 0) box.changed.notify_one();
  }
}

void MessageExchange::finish(RankId rank) {
  Mailbox& box = mailbox(rank);
  std::unique_lock lock(box.mutex);
  while (true) {
    if (stopped()) throw ReplayStopped{};
    if (box.outstanding == 0) {
      box.ready.clear();  // calls to help that came too late
      return;
    }
    if (!box.ready.empty()) {
      Message& message = *box.ready.front();
      box.ready.pop_front();
      lock.unlock();
      copy_parts(message);
      lock.lock();
      continue;
    }
    const std::uint64_t progress = progress_.load(std::memory_order_relaxed);
    const bool woken = box.changed.wait_for(
        lock, std::chrono::duration<double>(timeout_seconds_),
        [&] { return stopped() || box.outstanding == 0 || !box.ready.empty(); });
    if (!woken && progress == progress_.load(std::memory_order_relaxed)) {
      lock.unlock();
      throw Error(ErrorCode::Executor, blocked_report());
    }
  }
}

void MessageExchange::stop() {
  stopped_.store(true, std::memory_order_release);
  for (Mailbox& box : mailboxes_) {
    const std::lock_guard lock(box.mutex);
    box.changed.notify_all();
  }
}

std::string MessageExchange::blocked_report() const {
  std::vector<std::pair<RankId, std::string>> blocked;
  for (const Message& message : messages_) {
    for (const MessageEnd end : {MessageEnd::Sender, MessageEnd::Receiver}) {
      if (message.posted.load(std::memory_order_acquire) != bit_of(end)) continue;
      const bool is_sender = end == MessageEnd::Sender;
      blocked.emplace_back(is_sender ? message.sender.rank : message.receiver.rank,
                           describe(message, end));
    }
  }
  std::sort(blocked.begin(), blocked.end());
  std::string report = "expected progress within " + std::to_string(timeout_seconds_) +
                       " s, found " + std::to_string(blocked.size()) +
                       " messages that wait for their other end";
  for (std::size_t i = 0; i < blocked.size() && i < kMostReported; ++i) {
    report += "\n  " + blocked[i].second;
  }
  if (blocked.size() > kMostReported) {
    report += "\n  and " + std::to_string(blocked.size() - kMostReported) + " more";
  }
  return report;
}

}  // namespace plan
