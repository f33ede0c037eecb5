import { createHmac } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { writeFileSync } from 'node:fs';

/**
 * The sender of `storm.ts`, a process of its own. Requests are signed and put together beforehand, and answers are read
 * without an HTTP client, so that it takes little of the machine from the receiver. Each is due at its moment, whether
 * or not the earlier ones were answered; what is answered 503 is sent again after the `Retry-After` of the answer.
 * Before that some at a quarter of the rate, for a record of their own, so that both programs are compiled. It begins
 * when it is told to on stdin. Prints what it saw as JSON; the ids with a 2xx go to the file named last.
 */
const [hook = '', secret = '', rate = '0', seconds = '0', records = '', log = ''] = process.argv.slice(2);
const CONNECTIONS = 64;
const WARM_SECONDS = 5;
const [warmId, ...ids]: string[] = JSON.parse(records);
const key = Buffer.from(secret.replace('whsec_', ''), 'base64');
const { hostname, port, pathname } = new URL(hook);
const perSecond = Number(rate);
const warm = Math.ceil((perSecond / 4) * WARM_SECONDS);
const total = warm + perSecond * Number(seconds);

interface Answer {
  status: number;
  retryAfter: number | null;
  closes: boolean;
}

function requestOf(number: number): Buffer {
  const id = idOf(number);
  const body = JSON.stringify({
    type: 'content.updated',
    timestamp: new Date().toISOString(),
    data: { resource: 'content', id: number < warm ? warmId : ids[number % ids.length] },
  });
  const timestamp = Math.floor(Date.now() / 1_000);
  const digest = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  return Buffer.from(
    `POST ${pathname} HTTP/1.1\r\nhost: ${hostname}:${port}\r\ncontent-type: application/json\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\nwebhook-id: ${id}\r\nwebhook-timestamp: ${timestamp}\r\n` +
      `webhook-signature: v1,${digest}\r\n\r\n${body}`,
  );
}

function idOf(number: number): string {
  return `msg_storm_${number}`;
}

/** Null while the answer is not all there. */
function answerIn(text: string): Answer | null {
  const end = text.indexOf('\r\n\r\n');
  if (end === -1) return null;
  const head = text.slice(0, end).toLowerCase();
  const length = Number(/\r\ncontent-length: (\d+)/.exec(head)?.[1] ?? '0');
  if (text.length < end + 4 + length) return null;
  const retryAfter = /\r\nretry-after: (\d+)/.exec(head)?.[1];
  return {
    status: Number(head.slice(9, 12)),
    retryAfter: retryAfter === undefined ? null : Number(retryAfter),
    closes: head.includes('\r\nconnection: close'),
  };
}

/** One kept-alive connection; one request at a time. */
class Line {
  #socket: Socket | null = null;
  #text = '';
  #answered: ((answer: Answer) => void) | null = null;

  send(bytes: Buffer): Promise<Answer> {
    return new Promise((resolve) => {
      this.#answered = resolve;
      this.#socket ??= this.#open();
      this.#socket.write(bytes);
    });
  }

  close(): void {
    this.#socket?.destroy();
  }

  #open(): Socket {
    const socket = connect({ host: hostname, port: Number(port), noDelay: true });
    socket.setEncoding('latin1').on('data', (part: string) => {
      this.#text += part;
      const answer = answerIn(this.#text);
      if (answer !== null) this.#end(answer);
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      if (this.#socket === socket && this.#answered !== null) this.#end({ status: 0, retryAfter: null, closes: true });
    });
    return socket;
  }

  #end(answer: Answer): void {
    this.#text = '';
    if (answer.closes) {
      this.#socket?.destroy();
      this.#socket = null;
    }
    const answered = this.#answered;
    this.#answered = null;
    answered?.(answer);
  }
}

const requests = Array.from({ length: total }, (_, number) => requestOf(number));
const idle = Array.from({ length: CONNECTIONS }, () => new Line());
const lines = [...idle];
/** Due, in the order in which they are. */
const due: number[] = [];
let next = 0;
const latencies = new Float64Array(total);
const dueAt = new Float64Array(total);
let statuses: Record<number, number> = {};
const acked: string[] = [];
const left = { unanswered: 0 };
let [unmarked, repeats] = [0, 0];

async function one(line: Line, number: number): Promise<void> {
  const { status, retryAfter } = await line.send(requests[number] ?? Buffer.alloc(0));
  idle.push(line);
  statuses[status] = (statuses[status] ?? 0) + 1;
  if (status >= 200 && status < 300) {
    latencies[number] = performance.now() - (dueAt[number] ?? 0);
    acked.push(idOf(number));
    left.unanswered -= 1;
  } else {
    if (status === 503 && retryAfter === null) unmarked += 1;
    repeats += 1;
    setTimeout(() => due.push(number), (retryAfter ?? 1) * 1_000);
  }
  pump();
}

function pump(): void {
  while (idle.length > 0 && next < due.length) {
    const line = idle.pop();
    const number = due[next++];
    if (line !== undefined && number !== undefined) void one(line, number);
  }
}

/** From one number up to another; resolves when all are answered with 2xx, with the seconds that it took. */
async function phase(from: number, to: number, perSecond: number): Promise<number> {
  const began = performance.now();
  left.unanswered = to - from;
  for (let sent = from; left.unanswered > 0;) {
    const upTo = Math.min(to, from + Math.floor(((performance.now() - began) / 1_000) * perSecond));
    for (; sent < upTo; sent += 1) {
      dueAt[sent] = began + ((sent - from) * 1_000) / perSecond;
      due.push(sent);
    }
    pump();
    await delay(1);
  }
  return (performance.now() - began) / 1_000;
}

await phase(0, warm, perSecond / 4);
[statuses, repeats, unmarked] = [{}, 0, 0];
process.stdout.write('ready\n');
await new Promise((resolve) => process.stdin.once('data', resolve));
const before = process.cpuUsage();
const took = await phase(warm, total, perSecond);
const { user, system } = process.cpuUsage(before);
for (const line of lines) line.close();
writeFileSync(log, acked.join('\n'));
const sorted = latencies.slice(warm).toSorted();
const at = (part: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? NaN;
const figures = {
  rate: sorted.length / took,
  took,
  p50: at(0.5),
  p99: at(0.99),
  max: at(1),
  statuses,
  repeats,
  unmarked,
};
process.stdout.write(`${JSON.stringify({ ...figures, cpu: (user + system) / 1e6 })}\n`);
process.exit();
