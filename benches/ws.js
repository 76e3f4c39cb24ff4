// The peer of `benches/run ws`: rooms over the npm package `ws`, as its own documentation shows how to broadcast.
// `POST /notices/{room}/{count}/{bytes}` sends so many notices of that size to everyone in the room.

const http = require("http");
const { WebSocketServer } = require("ws");

const rooms = new Map();

function broadcast(room, count, bytes) {
  for (let n = 0; n < count; n++) {
    // Four bytes are the frame's header.
    const begin = '{"type":"Document","x":"';
    const notice = Buffer.from(begin + "x".repeat(bytes - 4 - begin.length - 2) + '"}');
    for (const socket of rooms.get(room) || []) socket.send(notice, { binary: false });
  }
}

const server = http.createServer((request, response) => {
  const [, what, room, count, bytes] = request.url.split("/");
  if (what === "notices") broadcast(room, Number(count), Number(bytes));
  response.end();
});

new WebSocketServer({ server }).on("connection", (socket, request) => {
  const room = request.url.split("/")[2];
  if (!rooms.has(room)) rooms.set(room, new Set());
  rooms.get(room).add(socket);
  socket.on("close", () => rooms.get(room).delete(socket));
});

server.listen(0, "127.0.0.1", () => console.log(`node listens on http://127.0.0.1:${server.address().port}`));
