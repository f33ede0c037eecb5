import path from 'node:path';
import type { DeployedConfig } from './deployed-config.ts';

/** What a unit needs to know of this machine. */
export interface UnitPlace {
  /** The command that runs content-sync, without its arguments. */
  command: readonly string[];
}

/** The unit of a process that runs all the time. */
export function serviceUnit(config: DeployedConfig, place: UnitPlace, command: 'serve' | 'worker'): string {
  return unit({
    Unit: [
      `Description=content-sync ${command}`,
      'Documentation=https://www.npmjs.com/package/content-sync',
      'After=network-online.target',
      'Wants=network-online.target',
    ],
    Service: [
      'Type=exec',
      ...processLines(config, place, [command]),
      'Restart=on-failure',
      'RestartSec=5',
      // A config that cannot be used is for a person to mend.
      'RestartPreventExitStatus=2',
      'TimeoutStopSec=20',
    ],
    Install: ['WantedBy=multi-user.target'],
  });
}

/** The unit that the timer starts, in place of `serve`. */
export function syncUnit(config: DeployedConfig, place: UnitPlace): string {
  return unit({
    Unit: [
      'Description=content-sync sync, whatever is due',
      'After=network-online.target',
      'Wants=network-online.target',
    ],
    // 3: some records were set aside, which the next run does not change.
    Service: ['Type=oneshot', ...processLines(config, place, ['sync', '--due']), 'SuccessExitStatus=3'],
  });
}

export function syncTimer(): string {
  return unit({
    Unit: ['Description=content-sync sync, every quarter of an hour'],
    Timer: ['OnCalendar=*:0/15', 'RandomizedDelaySec=60', 'Persistent=true'],
    Install: ['WantedBy=timers.target'],
  });
}

function processLines(config: DeployedConfig, { command }: UnitPlace, args: readonly string[]): string[] {
  const exec = [...command, ...args, '--config', path.join(config.folder, config.file)];
  return [
    `ExecStart=${exec.map(quoted).join(' ')}`,
    'DynamicUser=yes',
    // Relative paths of the warehouse start here.
    'StateDirectory=content-sync',
    'WorkingDirectory=%S/content-sync',
    // Names that the config reads: `NAME=value`, one a line, for root only (chmod 600).
    ...(config.names.length === 0 ? [] : [`# It sets ${config.names.join(', ')}.`]),
    'EnvironmentFile=-/etc/content-sync/environment',
    'NoNewPrivileges=yes',
    'ProtectSystem=strict',
    'ProtectHome=read-only',
    'PrivateTmp=yes',
    'PrivateDevices=yes',
    ...(config.data === null ? [] : [`ReadWritePaths=${quoted(config.data)}`]),
    'MemoryHigh=512M',
  ];
}

/** As systemd reads words of a command. */
function quoted(word: string): string {
  const text = word.replaceAll('%', '%%').replaceAll('$', '$$$$');
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `"${text.replaceAll(/["\\]/g, String.raw`\$&`)}"`;
}

function unit(sections: Readonly<Record<string, readonly string[]>>): string {
  return Object.entries(sections)
    .map(([name, lines]) => `[${name}]\n${lines.join('\n')}\n`)
    .join('\n');
}
