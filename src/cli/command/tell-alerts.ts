import { alertSettings } from '../../serve/alerts/alerts.ts';
import type { Settings } from '../../settings/settings.ts';
import type { CliContext } from './context.ts';
import type { ChosenSource } from './sources.ts';

/** Whom a command tells at its end that has worked on sources itself: where `serve` has done it, that one tells. */
export interface EndAlerts {
  worked(chosen: ChosenSource, settings: Settings): void;
  /** Waits some seconds at most; a command that was stopped says nothing. Never throws. */
  tell(): Promise<void>;
}

export function endAlerts({ version, clock, secrets, signal }: CliContext): EndAlerts {
  const all: { chosen: ChosenSource; settings: Settings }[] = [];
  return {
    worked: (chosen, settings) => void all.push({ chosen, settings }),
    tell: async () => {
      const [first] = all;
      if (first === undefined || signal.aborted || Object.keys(first.settings.alerts).length === 0) return;
      const { log } = first.chosen;
      try {
        const { tellOnce } = await import('../../serve/alerts/tell-once.ts');
        const sources = all.map(({ chosen }) => chosen.source);
        await tellOnce({ ...alertSettings(first.settings), sources, version, clock, secrets, log });
      } catch (error) {
        log.warn({ error }, 'alerts could not be told');
      }
    },
  };
}
