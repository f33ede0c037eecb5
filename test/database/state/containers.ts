import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';

/** Has two processes take one lease, each as pid 1 of a table of pids of its own and under the name of this host. */
const holder = new URL('lease-holder.ts', import.meta.url).pathname;

function contain(): ChildProcess {
  const own = ['-p', '-f', '--kill-child', '--mount-proc', process.execPath, holder, process.argv[2] ?? ''];
  return spawn('unshare', own, { stdio: ['ignore', 'pipe', 'pipe'] });
}

async function firstLine({ stdout }: ChildProcess): Promise<string> {
  if (stdout === null) throw new Error('the child has no pipes');
  const [chunk]: Buffer[] = await once(stdout, 'data');
  return String(chunk).trim();
}

const one = contain();
const first = await firstLine(one);
const other = contain();
if (other.stderr === null) throw new Error('the child has no pipes');
const second = await Promise.race([firstLine(other), text(other.stderr)]);
for (const child of [one, other]) child.kill('SIGKILL');
process.stdout.write(JSON.stringify({ first, second }));
