// RakNet by the C++ library that `bedrock-protocol` uses. Its clients repeat nothing that the server sent.
// `server PORT`: greets each player, and replies to each message with twice its length. Ends with its input.
// `client PORT`: five players that join at the same time and send ten messages. Prints how many got all replies.
//
// The binary of the package is chosen by the version of the system.
require('os').release = () => '5.0';
const { Client, Server, PacketPriority, PacketReliability } = require('raknet-native');

const HOST = '127.0.0.1';
const PLAYERS = 5;
const MESSAGES = 10;
const MESSAGE = Buffer.alloc(300, 0x86);
const REPLY = Buffer.alloc(600, 0x87);
const send = (peer, buffer) => peer.send(
    buffer, PacketPriority.IMMEDIATE_PRIORITY, PacketReliability.RELIABLE_ORDERED, 0,
);

const [role, port] = process.argv.slice(2);
if (role === 'server') {
    const server = new Server(HOST, Number(port), { maxConnections: 20, protocolVersion: 11 });
    const peers = new Map();
    server.on('openConnection', (client) => {
        peers.set(client.guid, client);
        send(client, REPLY);
    });
    server.on('encapsulated', ({ guid }) => send(peers.get(guid), REPLY));
    // The promise of `listen` is never resolved.
    server.listen();
    console.log('ready');
    process.stdin.on('end', () => process.exit(0)).resume();
} else {
    const players = [...Array(PLAYERS)].map(() => new Promise((resolve) => {
        const client = new Client(HOST, Number(port), { protocolVersion: 11 });
        let received = 0;
        client.on('encapsulated', () => {
            received += 1;
            if (received > MESSAGES) {
                resolve(true);
            } else {
                setTimeout(() => send(client, MESSAGE), 50);
            }
        });
        client.connect();
        setTimeout(() => resolve(false), 15_000);
    }));
    Promise.all(players).then((played) => {
        console.log(`played: ${played.filter(Boolean).length} of ${PLAYERS}`);
        process.exit(0);
    });
}
