// SPDX-License-Identifier: Apache-2.0
// Locks that clang's thread-safety analysis understands: the standard library's are not annotated.

#ifndef ADAPTCP_BASE_MUTEX_H_
#define ADAPTCP_BASE_MUTEX_H_

#include <pthread.h>

#include <condition_variable>
#include <mutex>

#include "tsl/platform/thread_annotations.h"

namespace adaptcp {

class TF_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() TF_EXCLUSIVE_LOCK_FUNCTION() { mu_.lock(); }
  void Unlock() TF_UNLOCK_FUNCTION() { mu_.unlock(); }
  bool TryLock() TF_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mu_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mu_;
};

class TF_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mu) TF_EXCLUSIVE_LOCK_FUNCTION(mu) : mu_(mu) { mu_->Lock(); }
  ~MutexLock() TF_UNLOCK_FUNCTION() { mu_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mu_;
};

class CondVar {
 public:
  // Releases `mu` while it waits; may wake without a signal, so callers loop on their condition.
  void Wait(Mutex* mu) TF_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    std::unique_lock<std::mutex> lock(mu->mu_, std::adopt_lock);
    cv_.wait(lock);
    lock.release();
  }
  void Signal() { cv_.notify_one(); }
  void SignalAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

// Shared/exclusive lock that lets a waiting writer pass ahead of new readers: `begin` must not
// starve behind a stream of overlapping updates. Not recursive, not even for readers.
class TF_LOCKABLE SharedMutex {
 public:
  SharedMutex() {
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
#ifdef __GLIBC__
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
#endif
    pthread_rwlock_init(&lock_, &attributes);
    pthread_rwlockattr_destroy(&attributes);
  }
  ~SharedMutex() { pthread_rwlock_destroy(&lock_); }
  SharedMutex(const SharedMutex&) = delete;
  SharedMutex& operator=(const SharedMutex&) = delete;

  void Lock() TF_EXCLUSIVE_LOCK_FUNCTION() { pthread_rwlock_wrlock(&lock_); }
  void Unlock() TF_UNLOCK_FUNCTION() { pthread_rwlock_unlock(&lock_); }
  void LockShared() TF_SHARED_LOCK_FUNCTION() { pthread_rwlock_rdlock(&lock_); }
  void UnlockShared() TF_UNLOCK_FUNCTION() { pthread_rwlock_unlock(&lock_); }

 private:
  pthread_rwlock_t lock_;
};

class TF_SCOPED_LOCKABLE SharedLock {
 public:
  explicit SharedLock(SharedMutex* mu) TF_SHARED_LOCK_FUNCTION(mu) : mu_(mu) { mu_->LockShared(); }
  ~SharedLock() TF_UNLOCK_FUNCTION() { mu_->UnlockShared(); }
  SharedLock(const SharedLock&) = delete;
  SharedLock& operator=(const SharedLock&) = delete;

 private:
  SharedMutex* const mu_;
};

class TF_SCOPED_LOCKABLE ExclusiveLock {
 public:
  explicit ExclusiveLock(SharedMutex* mu) TF_EXCLUSIVE_LOCK_FUNCTION(mu) : mu_(mu) { mu_->Lock(); }
  ~ExclusiveLock() TF_UNLOCK_FUNCTION() { mu_->Unlock(); }
  ExclusiveLock(const ExclusiveLock&) = delete;
  ExclusiveLock& operator=(const ExclusiveLock&) = delete;

 private:
  SharedMutex* const mu_;
};

}  // namespace adaptcp

#endif  // ADAPTCP_BASE_MUTEX_H_
