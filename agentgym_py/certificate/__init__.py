"""Certificates of worlds: can the expert solve it, does luck fail, can it be learned, and can it be gamed?

    from agentgym_py.certificate import certify

    certificate = certify("maze")
    print(certificate.verdict)

In a terminal `agentgym certify maze`. A certificate has the checks of the kit (`agentgym_py.testing`) and six criteria.
"""

from agentgym_py.certificate.certificate import ALL_CHECKS, CRITERIA, OPENENV_IDS, Certificate, certify

__all__ = ["ALL_CHECKS", "CRITERIA", "OPENENV_IDS", "Certificate", "certify"]
