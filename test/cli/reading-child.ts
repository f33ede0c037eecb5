import { checkCommand } from '../../src/cli/check.ts';
import { statusCommand } from '../../src/cli/status.ts';
import { ConfigError, messageOf } from '../../src/model/errors.ts';
import { runInProcess } from './in-process.ts';

/** Runs `status` and `check` with each config, as whoever it was started as; prints what they said, in order. */
const said: string[] = [];
for (const config of process.argv.slice(2)) {
  for (const [make, args] of [[statusCommand, []] as const, [checkCommand, ['content']] as const]) {
    const run = runInProcess(make, [...args, '--config', config], '/');
    said.push(await run.then(({ code, stdout, stderr }) => `${code}\n${stdout}${stderr}`, told));
  }
}
process.stdout.write(JSON.stringify(said));

function told(error: unknown): string {
  return error instanceof ConfigError ? `[${error.code}] ${error.message} → ${error.hint}` : messageOf(error);
}
