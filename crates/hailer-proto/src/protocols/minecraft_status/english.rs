//! English texts of the game's keys that servers use in descriptions and kicks
//! (spec/minecraft-status.md#6).

/// Returns the text of a key, with `%s` and `%1$s` in the places of arguments.
pub(super) fn text(key: &str) -> Option<&'static str> {
    let place = TEXTS.binary_search_by_key(&key, |(known, _)| known).ok()?;
    TEXTS.get(place).map(|(_, text)| *text)
}

/// Keys and texts, sorted by key.
static TEXTS: &[(&str, &str)] = &[
    ("chat.square_brackets", "[%s]"),
    ("chat.type.admin", "[%s: %s]"),
    (
        "chat.type.advancement.challenge",
        "%s has completed the challenge %s",
    ),
    ("chat.type.advancement.goal", "%s has reached the goal %s"),
    (
        "chat.type.advancement.task",
        "%s has made the advancement %s",
    ),
    ("chat.type.announcement", "[%s] %s"),
    ("chat.type.emote", "* %s %s"),
    ("chat.type.team.text", "%s <%s> %s"),
    ("chat.type.text", "<%s> %s"),
    ("connect.aborted", "Aborted"),
    ("connect.authorizing", "Logging in..."),
    ("connect.connecting", "Connecting to the server..."),
    ("connect.encrypting", "Encrypting..."),
    ("connect.failed", "Failed to connect to the server"),
    ("connect.joining", "Joining world..."),
    ("connect.negotiating", "Negotiating..."),
    ("disconnect.closed", "Connection closed"),
    ("disconnect.disconnected", "Disconnected by Server"),
    ("disconnect.endOfStream", "End of stream"),
    (
        "disconnect.exceeded_packet_rate",
        "Kicked for exceeding packet rate limit",
    ),
    ("disconnect.genericReason", "%s"),
    (
        "disconnect.ignoring_status_request",
        "Ignoring status request",
    ),
    ("disconnect.kicked", "Was kicked from the game"),
    ("disconnect.loginFailed", "Failed to log in"),
    ("disconnect.loginFailedInfo", "Failed to log in: %s"),
    (
        "disconnect.loginFailedInfo.insufficientPrivileges",
        "Multiplayer is disabled. Please check your Microsoft account settings.",
    ),
    (
        "disconnect.loginFailedInfo.invalidSession",
        "Invalid session (Try restarting your game and the launcher)",
    ),
    (
        "disconnect.loginFailedInfo.serversUnavailable",
        "The authentication servers are currently not reachable. Please try again.",
    ),
    (
        "disconnect.loginFailedInfo.userBanned",
        "You are banned from playing online",
    ),
    ("disconnect.lost", "Connection Lost"),
    ("disconnect.overflow", "Buffer overflow"),
    ("disconnect.packetError", "Network Protocol Error"),
    ("disconnect.quitting", "Quitting"),
    ("disconnect.spam", "Kicked for spamming"),
    ("disconnect.timeout", "Timed out"),
    ("disconnect.transfer", "Transferred to another server"),
    ("disconnect.unknownHost", "Unknown host"),
    ("gameMode.adventure", "Adventure Mode"),
    ("gameMode.creative", "Creative Mode"),
    ("gameMode.hardcore", "Hardcore Mode"),
    ("gameMode.spectator", "Spectator Mode"),
    ("gameMode.survival", "Survival Mode"),
    ("gui.back", "Back"),
    ("gui.cancel", "Cancel"),
    ("gui.done", "Done"),
    ("gui.no", "No"),
    ("gui.ok", "Ok"),
    ("gui.yes", "Yes"),
    ("lanServer.title", "LAN World"),
    ("menu.disconnect", "Disconnect"),
    ("menu.multiplayer", "Multiplayer"),
    ("menu.singleplayer", "Singleplayer"),
    (
        "multiplayer.disconnect.authservers_down",
        "Authentication servers are down. Please try again later, sorry!",
    ),
    (
        "multiplayer.disconnect.bad_chat_index",
        "Detected missed or reordered chat message from server",
    ),
    (
        "multiplayer.disconnect.banned",
        "You are banned from this server",
    ),
    (
        "multiplayer.disconnect.banned.expiration",
        "\nYour ban will be removed on %s",
    ),
    (
        "multiplayer.disconnect.banned.reason",
        "You are banned from this server.\nReason: %s",
    ),
    (
        "multiplayer.disconnect.banned_ip.expiration",
        "\nYour ban will be removed on %s",
    ),
    (
        "multiplayer.disconnect.banned_ip.reason",
        "Your IP address is banned from this server.\nReason: %s",
    ),
    (
        "multiplayer.disconnect.chat_validation_failed",
        "Chat message validation failure",
    ),
    (
        "multiplayer.disconnect.duplicate_login",
        "You logged in from another location",
    ),
    (
        "multiplayer.disconnect.expired_public_key",
        "Expired profile public key. Check that your system time is synchronized, and try restarting your game.",
    ),
    (
        "multiplayer.disconnect.flying",
        "Flying is not enabled on this server",
    ),
    ("multiplayer.disconnect.generic", "Disconnected"),
    (
        "multiplayer.disconnect.idling",
        "You have been idle for too long!",
    ),
    (
        "multiplayer.disconnect.illegal_characters",
        "Illegal characters in chat",
    ),
    (
        "multiplayer.disconnect.incompatible",
        "Incompatible client! Please use %s",
    ),
    (
        "multiplayer.disconnect.invalid_entity_attacked",
        "Attempting to attack an invalid entity",
    ),
    (
        "multiplayer.disconnect.invalid_packet",
        "Server sent an invalid packet",
    ),
    (
        "multiplayer.disconnect.invalid_player_data",
        "Invalid player data",
    ),
    (
        "multiplayer.disconnect.invalid_player_movement",
        "Invalid move player packet received",
    ),
    (
        "multiplayer.disconnect.invalid_public_key_signature",
        "Invalid signature for profile public key.\nTry restarting your game.",
    ),
    (
        "multiplayer.disconnect.invalid_vehicle_movement",
        "Invalid move vehicle packet received",
    ),
    (
        "multiplayer.disconnect.ip_banned",
        "You have been IP banned from this server",
    ),
    ("multiplayer.disconnect.kicked", "Kicked by an operator"),
    (
        "multiplayer.disconnect.missing_tags",
        "Incomplete set of tags received from server.\nPlease contact server operator.",
    ),
    (
        "multiplayer.disconnect.name_taken",
        "That name is already taken",
    ),
    (
        "multiplayer.disconnect.not_whitelisted",
        "You are not white-listed on this server!",
    ),
    (
        "multiplayer.disconnect.out_of_order_chat",
        "Out-of-order chat packet received. Did your system time change?",
    ),
    (
        "multiplayer.disconnect.outdated_client",
        "Incompatible client! Please use %s",
    ),
    (
        "multiplayer.disconnect.outdated_server",
        "Incompatible client! Please use %s",
    ),
    ("multiplayer.disconnect.server_full", "The server is full!"),
    ("multiplayer.disconnect.server_shutdown", "Server closed"),
    (
        "multiplayer.disconnect.slow_login",
        "Took too long to log in",
    ),
    (
        "multiplayer.disconnect.too_many_pending_chats",
        "Too many unacknowledged chat messages",
    ),
    (
        "multiplayer.disconnect.transfers_disabled",
        "Server does not accept transfers",
    ),
    (
        "multiplayer.disconnect.unexpected_query_response",
        "Unexpected custom data from client",
    ),
    (
        "multiplayer.disconnect.unsigned_chat",
        "Received chat packet with missing or invalid signature.",
    ),
    (
        "multiplayer.disconnect.unverified_username",
        "Failed to verify username!",
    ),
    ("multiplayer.player.joined", "%s joined the game"),
    (
        "multiplayer.player.joined.renamed",
        "%s (formerly known as %s) joined the game",
    ),
    ("multiplayer.player.left", "%s left the game"),
    (
        "multiplayer.status.cannot_connect",
        "Can't connect to server",
    ),
    (
        "multiplayer.status.cannot_resolve",
        "Can't resolve hostname",
    ),
    ("multiplayer.status.finished", "Finished"),
    ("multiplayer.status.incompatible", "Incompatible version!"),
    ("multiplayer.status.no_connection", "(no connection)"),
    ("multiplayer.status.old", "Old"),
    ("multiplayer.status.online", "Online"),
    ("multiplayer.status.ping", "%s ms"),
    ("multiplayer.status.pinging", "Pinging..."),
    ("multiplayer.status.player_count", "%s/%s"),
    ("multiplayer.status.quitting", "Quitting"),
    (
        "multiplayer.status.request_handled",
        "Status request has been handled",
    ),
    ("multiplayer.status.unknown", "???"),
    (
        "multiplayer.status.unrequested",
        "Received unrequested status",
    ),
    ("multiplayer.status.version", "Server version: %s"),
    ("options.difficulty.easy", "Easy"),
    ("options.difficulty.hard", "Hard"),
    ("options.difficulty.normal", "Normal"),
    ("options.difficulty.peaceful", "Peaceful"),
    ("options.off", "OFF"),
    ("options.on", "ON"),
    ("selectWorld.gameMode.adventure", "Adventure"),
    ("selectWorld.gameMode.creative", "Creative"),
    ("selectWorld.gameMode.hardcore", "Hardcore"),
    ("selectWorld.gameMode.spectator", "Spectator"),
    ("selectWorld.gameMode.survival", "Survival"),
    ("selectWorld.version", "Version:"),
    ("translation.test.none", "Hello, world!"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_and_found() {
        assert!(TEXTS.is_sorted_by(|(a, _), (b, _)| a < b));
        for (key, english) in TEXTS {
            assert_eq!(text(key), Some(*english));
        }
        assert_eq!(text("multiplayer.disconnect"), None);
    }
}
