//! Policies for the addresses of servers that masters list.
//!
//! A policy is applied after each lookup of a name, because a name may lead to another address
//! later.

use crate::server::{Origin, Server};
use hailer::support::address::AddressPolicy;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// Policies for the addresses of servers that masters list, see [`Origin::Master`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListedPolicies {
    /// Policies by target.
    pub by_target: HashMap<String, Arc<AddressPolicy>>,
    /// Policy of all others.
    pub default: AddressPolicy,
}

impl ListedPolicies {
    /// Returns those addresses of a server that may be polled, at least one unless there are none.
    ///
    /// # Errors
    /// None may be polled. The text names the first and the reason.
    pub(super) fn allowed(
        &self,
        server: &Server,
        addresses: &[SocketAddr],
    ) -> Result<Vec<SocketAddr>, Arc<str>> {
        if server.origin != Origin::Master {
            return Ok(addresses.to_vec());
        }
        let own = self.by_target.get(&server.target);
        let policy = own.map_or(&self.default, |own| own);
        let mut allowed = Vec::new();
        let mut fault = None;
        for address in addresses {
            match policy.check(address.ip()) {
                Ok(()) => allowed.push(*address),
                Err(error) => fault = fault.or(Some(error)),
            }
        }
        match fault {
            Some(fault) if allowed.is_empty() => Err(fault.to_string().into()),
            _ => Ok(allowed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{NewServer, ServerId};

    /// The name of a listed server leads to this machine later. A server of the configuration may
    /// be on this machine.
    #[test]
    fn only_listed_servers_need_public_addresses() {
        let server = |name: &str, origin| {
            let target = format!("quake3://{name}.example.com:1");
            NewServer::new(name, target, origin).with_id(ServerId(1))
        };
        let addresses: [SocketAddr; 3] =
            ["127.0.0.1:1", "8.8.8.8:1", "10.0.0.1:1"].map(|address| address.parse().unwrap());
        let [here, public, private] = addresses;
        let mut policies = ListedPolicies::default();
        let near = AddressPolicy::default().near(&[here.ip()]);
        let target = server("near", Origin::Master).target;
        policies.by_target.insert(target, Arc::new(near));
        for (name, origin, all, allowed) in [
            ("far", Origin::Master, &addresses[..], &[public][..]),
            ("near", Origin::Master, &addresses, &[here, public]),
            ("own", Origin::Configuration, &addresses, &addresses),
            ("own", Origin::Api, &addresses, &addresses),
            ("far", Origin::Master, &[], &[]),
        ] {
            let found = policies.allowed(&server(name, origin), all);
            assert_eq!(found.as_deref(), Ok(allowed), "{name}");
        }
        let refused = policies.allowed(&server("far", Origin::Master), &[private, here]);
        assert_eq!(
            refused.unwrap_err().as_ref(),
            "10.0.0.1 is a private address"
        );
    }
}
