//! Uploaded images in memory: few of an account and few in all, so that nobody fills the memory or pushes out what others have uploaded.

use crate::nouns::Id;
use bytes::Bytes;
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};

/// Images that are kept of an account, and in all. As many as an item has, of sixteen accounts.
const OF_ACCOUNT: usize = 16;
const IN_ALL: usize = 256;

/// An image of an item: the item and its number.
type Key = (Id, i64);
/// In the order of `Size::ALL`.
type Sizes = [Bytes; 3];

/// The images that are kept.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    sizes: HashMap<Key, Sizes>,
    /// Of each account its images, the oldest first, with the numbers under which they came.
    of_accounts: HashMap<Id, VecDeque<(u64, Key)>>,
    came: u64,
}

impl Uploads {
    pub(crate) fn get(&self, key: &Key) -> Option<&Sizes> {
        self.sizes.get(key)
    }

    /// Keeps an image of this account. When its part is full, its own oldest one goes; when the whole is, the oldest one of the account
    /// that has most.
    pub(crate) fn put(&mut self, account: Id, key: Key, sizes: Sizes) {
        self.came += 1;
        let own = self.of_accounts.entry(account).or_default();
        own.push_back((self.came, key));
        let full = own.len() > OF_ACCOUNT;
        self.sizes.insert(key, sizes);
        if full {
            self.drop_oldest(account);
        } else if self.sizes.len() > IN_ALL
            && let Some(account) = self.with_most()
        {
            self.drop_oldest(account);
        }
    }

    /// The account with most images; of several the one whose oldest is the oldest.
    fn with_most(&self) -> Option<Id> {
        let rank = |own: &VecDeque<(u64, Key)>| (own.len(), Reverse(own.front().map(|(came, _)| *came)));
        self.of_accounts.iter().max_by_key(|(_, own)| rank(own)).map(|(account, _)| *account)
    }

    fn drop_oldest(&mut self, account: Id) {
        let Some(own) = self.of_accounts.get_mut(&account) else { return };
        if let Some((_, key)) = own.pop_front() {
            self.sizes.remove(&key);
        }
        if own.is_empty() {
            self.of_accounts.remove(&account);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> Sizes {
        [b"t", b"p", b"f"].map(|size| Bytes::from_static(size))
    }

    #[test]
    fn an_account_that_uploads_on_and_on_replaces_its_own_images() {
        let mut uploads = Uploads::default();
        uploads.put(1, (10, 0), image());
        (0..1000).for_each(|item| uploads.put(2, (20 + item, 0), image()));
        assert!(uploads.get(&(10, 0)).is_some(), "another's image");
        assert_eq!(uploads.sizes.len(), 1 + OF_ACCOUNT);
        assert!(uploads.get(&(1019, 0)).is_some() && uploads.get(&(1003, 0)).is_none(), "the oldest go");
    }

    #[test]
    fn who_has_most_gives_way_when_the_memory_is_full() {
        let mut uploads = Uploads::default();
        uploads.put(1, (10, 0), image());
        let many = i64::try_from(IN_ALL).unwrap();
        for number in 0..many {
            uploads.put(100 + number % 64, (1000 + number, 0), image());
            assert!(uploads.sizes.len() <= IN_ALL);
        }
        assert!(uploads.get(&(10, 0)).is_some(), "the only one of its account, though the oldest");
        // Now each has one: the oldest of all goes.
        let mut uploads = Uploads::default();
        (0..=many).for_each(|account| uploads.put(account, (account, 0), image()));
        assert!(uploads.get(&(0, 0)).is_none() && uploads.get(&(1, 0)).is_some() && uploads.get(&(many, 0)).is_some());
        assert_eq!((uploads.sizes.len(), uploads.of_accounts.len()), (IN_ALL, IN_ALL));
    }
}
