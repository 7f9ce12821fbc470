"""Are tables of results consistent with themselves, with each other and with what they are defined as?"""
