import v8 from 'node:v8';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { startReceiver } from '../../../src/server/receiver/start-receiver.ts';

/**
 * The receiver as `serve` runs it, for sources given as a JSON array. Prints its port, then each note; it closes on SIGTERM.
 */
// As `main.ts` does.
v8.setFlagsFromString('--semi-space-growth-factor=1');
v8.setFlagsFromString('--heap-growing-percent=100');
const [sources = ''] = process.argv.slice(2);
const receiver = await startReceiver({
  serve: { host: '127.0.0.1', port: 0 },
  sources: JSON.parse(sources),
  clock: systemClock,
  pages: async () => new Response(null, { status: 404 }),
  onArrival: () => undefined,
  onAnswer: () => undefined,
  onNote: (note) => console.log(JSON.stringify(note)),
});
process.once('SIGTERM', () => void receiver.close());
console.log(new URL(receiver.url).port);
