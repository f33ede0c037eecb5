import { Command, Option } from 'commander';
import { SANDBOX_OPTIONS, type OptionDeclaration, type SandboxSettings } from '../sandbox/service/sandbox-options.ts';
import { startSandbox } from '../sandbox/service/sandbox.ts';

/** `node test/bench/service-command.ts`: the service in a process of its own, for benches. Prints its address as JSON. */
const command = new Command('sandbox');
for (const declaration of Object.values<OptionDeclaration>(SANDBOX_OPTIONS)) {
  const option = new Option(declaration.flag, declaration.about);
  if (declaration.parse !== undefined)
    option.argParser((text, before: unknown) => declaration.parse?.(text, before ?? declaration.fallback));
  command.addOption(option);
}
await command
  .action(async (options: Partial<SandboxSettings>) => {
    const { url, apiKey: api_key } = await startSandbox(options);
    process.stdout.write(`${JSON.stringify({ url, api_key })}\n`);
  })
  .parseAsync();
